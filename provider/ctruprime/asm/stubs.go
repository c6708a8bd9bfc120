package main

func inversion() {}
