package main

import (
	"crypto/tls"
	"fmt"

	"smelt/internal/store"
	"smelt/internal/trust"
)

// trusted is how to connect with TLS: whom to trust.
func (s *settings) trusted() (*tls.Config, error) {
	c, err := trust.Config(s.CA)
	if err != nil {
		return nil, usagef("SMELT_CA: %w", err)
	}
	return c, nil
}

// kafkaTLS is how to connect to Kafka with TLS; nil is without. The client
// certificate is read at each connection, so that a new one is shown once it is
// there.
func (s *settings) kafkaTLS() (*tls.Config, error) {
	switch {
	case (s.KafkaCert == "") != (s.KafkaKey == ""):
		return nil, usagef("SMELT_KAFKA_CERT and SMELT_KAFKA_KEY belong together: set both, or none")
	case s.KafkaCert != "" && !s.KafkaTLS:
		return nil, usagef("SMELT_KAFKA_CERT is shown with TLS only: set SMELT_KAFKA_TLS=true")
	case !s.KafkaTLS:
		return nil, nil
	}
	c, err := s.trusted()
	if err != nil || s.KafkaCert == "" {
		return c, err
	}
	if _, err := tls.LoadX509KeyPair(s.KafkaCert, s.KafkaKey); err != nil {
		return nil, usagef("SMELT_KAFKA_CERT, SMELT_KAFKA_KEY: %w", err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.KafkaCert, s.KafkaKey)
		if err != nil {
			return nil, fmt.Errorf("SMELT_KAFKA_CERT, SMELT_KAFKA_KEY: %w", err)
		}
		return &pair, nil
	}
	return c, nil
}

// s3Keys are the current S3 keys. AWS_SESSION_TOKEN belongs to AWS_ACCESS_KEY_ID and is ignored with keys from elsewhere.
func (s *settings) s3Keys() (store.Keys, error) {
	access, err := s.again("S3AccessKey")
	if err != nil {
		return store.Keys{}, err
	}
	secret, err := s.again("S3SecretKey")
	if err != nil {
		return store.Keys{}, err
	}
	session, err := s.again("S3SessionToken")
	if err != nil {
		return store.Keys{}, err
	}
	if session.Name == "AWS_SESSION_TOKEN" && access.Name != "AWS_ACCESS_KEY_ID" {
		session.Value = ""
	}
	return store.Keys{Access: access.Value, Secret: secret.Value, Session: session.Value}, nil
}
