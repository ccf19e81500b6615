"""Hardware of a design: its RTL, the jobs that a host gives it, and what lies in its memory."""
