"""What happens when engines, nodes or their logs misbehave: the parts of `./dev bench recovery`."""
