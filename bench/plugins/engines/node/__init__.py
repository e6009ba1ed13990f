"""Programs in JavaScript that runtimes run, and the packages of npm that these need."""
