"""Commands that outlive the daemon: a zygote forks a runner for each, and the runner keeps what the command says.

in the daemon          specs, environment, failures       what a command is, what it gets, why it cannot start
                       commands, links, channel           start, wait, talk, stop, attach
                       outputs, snapshots, outcomes       what tools show
in zygote and runner   zygote, runner, birth              fork, own, start the command
(standard library)     control, inlet, family, capture    its callers, its input, its processes, its output
in both                protocol, folder, processes        the words, the files, the machine
"""
