"""What happens to a request between its auth and its route.

body            strict JSON in, msgspec out
strict_query    refuses unknown and repeated query parameters
lists           a page of a list, the number of its rows, CSV
openapi         the OpenAPI document
stream, uploads a recording on its way into the artifact store
room            what an upload may take there, while it comes
transcripts     a transcript as the answer of a request that waits for it
cancelling      cancels a task or a job, on record
worker_polling  a worker's poll: claims, or waits for a task
worker_results  whether a worker's result was accepted before
"""
