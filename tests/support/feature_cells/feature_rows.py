"""The table of features, in the order in which peers use them."""

from support.feature_cells import composition_rows as composition_rows
from support.feature_cells import context_rows as context_rows
from support.feature_cells.features import FEATURES as FEATURES
from support.feature_cells.features import Feature as Feature

FEATURES.sort(key=lambda row: row.item)
