"""Words and how they are shown: safe, formatted, displayed, completed, counted while work goes on."""
