"""The server room: HTTP over the local socket and loopback TCP. It asks `runtime`, shapes answers, decides nothing."""
