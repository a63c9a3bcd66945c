"""Measurements of Dalston beside other queues, in one run on one private server. Start them with `./dev bench NAME`."""
