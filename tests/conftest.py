"""What all tests stand on."""

import signal

# A suite that a shell started in the background is told to ignore interrupts, and so would every program be
# that it starts; some tests interrupt those.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
