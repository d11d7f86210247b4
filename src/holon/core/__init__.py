"""The vocabulary of Holon, without any I/O: one module a noun."""
