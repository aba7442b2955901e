"""The AWS adapter set: DynamoDB, SQS, EventBridge Scheduler, S3 and API Gateway. Every boto3 import lives here."""
