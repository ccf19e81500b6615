"""What design time hands to run time, and run time to design time: tables on disk."""
