"""Rules that design time and run time share, on plain arrays."""
