"""One file per question that `./dev bench broker` answers. Each returns a table with its targets."""
