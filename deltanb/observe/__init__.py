"""What people hold to see a table's transactions: timelines, steppers, races, time travel."""
