"""The launcher's room: how two engines are laid out on a set of GPUs, and with which flags."""
