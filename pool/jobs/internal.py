"""Names of jobpool's own jobs. They rest in the store as all jobs do; only jobpool itself enqueues and runs them."""

WEBHOOK_TYPE = "jobpool.webhook"
WEBHOOK_QUEUE = "jobpool.webhooks"
OWN_QUEUES = (WEBHOOK_QUEUE,)
