"""A second model beside a target: found, fitted, measured, weighed, placed, and at work."""
