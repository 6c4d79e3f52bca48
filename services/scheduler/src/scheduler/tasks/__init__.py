"""Long tasks: redrive of dead letters, bulk move, bulk cancel. Their state is records of GANTRY_SYS_TASKS and nothing else."""
