"""The engine under the generated classes; it knows no revision, and importing it loads nothing."""
