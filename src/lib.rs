//! `ralph`: drives coding agents through a graph of tasks.
