"""Long tasks: redrive of dead letters, bulk move, bulk cancel. Their only state is records of GANTRY_SYS_TASKS."""
