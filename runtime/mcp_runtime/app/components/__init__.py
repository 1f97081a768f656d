"""What tools, resources and prompts of an app have in common: tags, visibility, and changes of their arguments."""
