"""The layout of generated modules: that of black, which reads hardly a line of them.

A module is read as logical lines. Comments and docstrings of most forms stay as they are, and most statements are
written as black writes them. The others are formatted by black in one call for all modules, where equal lines are
formatted once. The empty lines between them follow the rules of black. A module with another form is formatted by black
as a whole.
"""
