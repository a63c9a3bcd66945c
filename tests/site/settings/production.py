"""The environment of a complete production install."""

PRODUCTION = {
    "DALSTON_SECRET_KEY": "tX3qv8-Lk2mZr6_Wp9sYh4nBd7cGf1jKe5uTa0iOxQyRwEvNbM",
    "DALSTON_ALLOWED_HOSTS": "dalston.example.com",
    "DATABASE_URL": "postgres://dalston:pw@db.example/dalston",
    "REDIS_URL": "redis://:pw@redis.example:6379/0",
}
