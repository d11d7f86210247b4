"""The folders that agents work in: where they may reach, and how files in them are changed."""
