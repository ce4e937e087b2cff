"""The deployment files: compose, images, configurations, and every command of theirs as a local process."""
