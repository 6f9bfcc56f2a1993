//! `ss`'s filter expressions, and ours: parsed once, decided by the kernel where it can, by us for the rest.
