"""Fields (values at sites, map after map): data, tasks, and what they are judged by."""
