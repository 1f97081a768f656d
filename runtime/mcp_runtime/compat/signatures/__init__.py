"""What the constructors and methods of official servers take, for type checkers; nothing imports it when it runs."""
