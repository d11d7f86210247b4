"""Commands that outlive the daemon: a zygote forks a runner for each, and the runner keeps what the command says."""
