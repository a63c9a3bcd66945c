"""What happens to a request between its auth and its route.

body            strict JSON in, msgspec out
strict_query    refuses unknown and repeated query parameters
openapi         the OpenAPI document
cancelling      cancels a task or a job, on record
worker_polling  a worker's poll: claims, or waits for a task
worker_results  whether a worker's result was accepted before
"""
