"""Names of jobpool's own jobs. They rest in the store as all jobs do; only jobpool itself enqueues and runs them."""

WEBHOOK_TYPE = "jobpool.webhook"
WEBHOOK_QUEUE = "jobpool.webhooks"
BULK_TYPE = "jobpool.bulk"
BULK_QUEUE = "jobpool.bulk"
OWN_QUEUES = (WEBHOOK_QUEUE, BULK_QUEUE)
