"""The orchestrators' end of the queue: what engines report, and which process leads.

events    EventReader: reads the events of all queues, acknowledges them after the commit
lease     leadership of a role
"""
