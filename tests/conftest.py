"""What every test shares. Marks are declared in pyproject.toml."""
