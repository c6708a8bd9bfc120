package tlsext_test

func fipsChild() {}
