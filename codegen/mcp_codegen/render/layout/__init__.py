"""The layout of generated modules: that of black, for which black reads hardly more than the lines that it splits.

A module is read as logical lines. Most of them are as black leaves them, and stay. The others are formatted by black in
one call for all modules, where equal lines are formatted once. The empty lines between them follow the rules of black.
A module with another form is formatted by black as a whole.
"""
