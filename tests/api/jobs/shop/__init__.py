"""An installed app with a pipeline."""
