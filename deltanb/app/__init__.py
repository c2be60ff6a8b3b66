"""What people start: the command line, and JupyterLab on the tutorials."""
