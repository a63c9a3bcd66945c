"""What to do, decided without doing it: pure functions of what is known and of `now`. The loop acts."""
