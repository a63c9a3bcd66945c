"""One file per question of `./dev bench broker`, and that of `./dev bench pipeline`: each a table with its targets."""
