"""The five designs that came first, row by row: what covers each of their rules, fields, constants and metrics. A test,
a declared metric, an alert, a log event, or a row of ADR 0033 that says what differs.

pointers          reads what a row may point at
d000 … d004       a table per design: 000 reliable queues, 001 the agreed queue, 002 the debate behind it, 003 the queue
                  manager, 004 the worker
test_designs      each row of each table points at something that exists
"""
