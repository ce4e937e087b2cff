"""What others are told: metrics, logs, recent figures. Fed by frozen records, never in a request's way."""
