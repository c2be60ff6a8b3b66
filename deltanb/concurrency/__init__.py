"""What the threads of a process share: work done side by side or in the background, turns, and memory."""
