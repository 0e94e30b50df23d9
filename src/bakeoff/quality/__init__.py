"""Quality of a variant: tasks and their scoring, divergence, consistency. Its modules are imported one by one."""
