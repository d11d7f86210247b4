"""The command line: one seat from which a person or a script looks in. It talks to the server, never to the store."""
