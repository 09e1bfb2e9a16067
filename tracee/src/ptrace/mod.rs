//! Processes that we trace: launched or attached, their stops, registers and signals.
