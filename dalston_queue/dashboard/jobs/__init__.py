"""The page of jobs: a search whose fields are its address."""
