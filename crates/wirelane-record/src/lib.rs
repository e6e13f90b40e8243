//! Records a port into a store: every queue in parallel, without loss, for days.
