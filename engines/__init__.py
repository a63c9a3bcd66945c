"""The engine SDK (`engines.sdk`) and the demo engine. No Django here: engines run where only Redis is."""
